// A client of HTTP/3 made of quic-go, as plain as a load generator can be: every stream of every
// connection asks for the same address again as soon as it has its answer. It prints how many answers
// came whole.
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
		fmt.Fprintln(os.Stderr, "give connections, streams, seconds and a URL")
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

// ask makes one exchange and says whether it was whole.
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
