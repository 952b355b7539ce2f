// A minimal HTTP/3 load generator on quic-go: every stream of every connection requests the same URL again as soon
// as its response is complete. It prints the number of complete responses.
//
// Arguments: connections, streams on each, seconds, URL.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"
)

func number(place int) int {
	value, err := strconv.Atoi(os.Args[place])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "arguments: connections, streams, seconds, URL")
		os.Exit(2)
	}
	connections, streams, seconds, url := number(1), number(2), number(3), os.Args[4]
	over, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var whole atomic.Uint64
	var all sync.WaitGroup
	for range connections {
		// A transport keeps one connection to a host.
		transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.Close()
		for range streams {
			all.Go(func() {
				for ask(over, transport, url) {
					whole.Add(1)
				}
			})
		}
	}
	all.Wait()
	fmt.Println(whole.Load())
}

// ask makes one exchange and reports whether it was complete.
func ask(over context.Context, transport *http3.Transport, url string) bool {
	request, err := http.NewRequestWithContext(over, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		if over.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}
