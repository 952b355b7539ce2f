/* A minimal HTTP client: a loop of epoll, send and recv around one request, for the benchmark of clients.
 *
 * It parses the length of the first response of each connection, assumes that all other responses have the same
 * length, counts bytes, and reads no clock. Usage: bare_loop CONNECTIONS SECONDS ADDRESS PORT TARGET. Prints the
 * number of completed exchanges.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static void alarmed(int signal) { (void)signal, over = 1; }
static void fail(const char *what) { perror(what), exit(1); }

struct connection {
    int socket;
    size_t whole;    /* bytes of a response; 0 before the first head is complete */
    size_t received; /* bytes of the current response */
};

static char request[4096], buffer[1 << 17];
static size_t request_length;

static void ask(struct connection *connection) {
    connection->received = 0;
    if (send(connection->socket, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length) fail("send");
}

/* The length of the response that begins in the buffer; 0 when its head is incomplete. */
static size_t length_of(size_t received) {
    char *end = memmem(buffer, received, "\r\n\r\n", 4);
    char *field = end ? memmem(buffer, received, "Content-Length: ", 16) : NULL;
    return field && field < end ? (size_t)(end + 4 - buffer) + strtoul(field + 16, NULL, 10) : 0;
}

int main(int count, char **words) {
    if (count != 6) return 2;
    int connections = atoi(words[1]);
    request_length = snprintf(request, sizeof request,
        "GET %s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", words[5], words[3], words[4]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[4]))};
    if (inet_pton(AF_INET, words[3], &address.sin_addr) != 1) return 2;
    struct sigaction action = {.sa_handler = alarmed};
    sigaction(SIGALRM, &action, NULL);
    alarm(atoi(words[2]));
    int epoll = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    for (int n = 0; n < connections; n++) {
        int one = 1;
        all[n].socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[n].socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(all[n].socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &all[n]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[n].socket, &event)) fail("epoll_ctl");
        ask(&all[n]);
    }
    unsigned long exchanges = 0;
    struct epoll_event events[256];
    while (!over) {
        int ready = epoll_wait(epoll, events, 256, -1);
        if (ready < 0 && errno != EINTR) fail("epoll_wait");
        for (int n = 0; n < ready; n++) {
            struct connection *connection = events[n].data.ptr;
            ssize_t received = recv(connection->socket, buffer, sizeof buffer, MSG_DONTWAIT);
            if (received < 0 && errno == EAGAIN) continue;
            if (received <= 0) fail("recv");
            connection->received += received;
            if (!connection->whole) connection->whole = length_of(received);
            if (connection->whole && connection->received >= connection->whole) {
                exchanges++;
                ask(connection);
            }
        }
    }
    printf("%lu\n", exchanges);
    return 0;
}
