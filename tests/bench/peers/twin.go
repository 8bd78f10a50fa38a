// A minimal metadata endpoint on Go's net/http: the same checks, the same response.
//
// It reads its callers and their document at the start, and holds requests until a signal changes
// the document. It has no fleet, store, limits, timeouts or counters.
//
//	twin PORT DOCUMENT ADDRESSES    (two files: the body of the response, and one address per line)
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const scope = "scope"

var versions = map[string]bool{
	"2017-03-01": true, "2017-08-01": true, "2017-11-01": true, "2019-01-01": true,
	"2019-04-01": true, "2019-08-01": true, "2020-07-01": true,
}

type contextKey struct{}

// A published scope: its document, and the requests that wait for the next one.
type published struct {
	incarnation int
	body        []byte
	changed     chan struct{}
}

type twin struct {
	callers   map[string]string // addresses to scopes
	lock      sync.RWMutex
	documents map[string]*published // by scope
}

// name resolves the caller once per connection, from the address that it connected to.
func (t *twin) name(ctx context.Context, connection net.Conn) context.Context {
	address := connection.LocalAddr().(*net.TCPAddr).IP.String()
	return context.WithValue(ctx, contextKey{}, t.callers[address])
}

func (t *twin) document(scope string) *published {
	t.lock.RLock()
	defer t.lock.RUnlock()
	return t.documents[scope]
}

// change publishes the next incarnation and wakes all held requests.
func (t *twin) change() {
	t.lock.Lock()
	defer t.lock.Unlock()
	old := t.documents[scope]
	t.documents[scope] = &published{old.incarnation + 1, old.body, make(chan struct{})}
	close(old.changed)
}

func refuse(w http.ResponseWriter, status int, why string) {
	http.Error(w, `{"error": "`+why+`"}`, status)
}

func (t *twin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metadata/scheduledevents" || r.URL.RawPath != "" {
		refuse(w, http.StatusNotFound, "path")
		return
	}
	if r.Method != http.MethodGet {
		refuse(w, http.StatusMethodNotAllowed, "method")
		return
	}
	query := r.URL.Query()
	if found := query["api-version"]; len(found) != 1 || !versions[found[0]] {
		refuse(w, http.StatusBadRequest, "api-version")
		return
	}
	if found := r.Header["Metadata"]; len(found) != 1 || !strings.EqualFold(found[0], "true") {
		refuse(w, http.StatusBadRequest, "metadata header")
		return
	}
	if _, found := r.Header["X-Forwarded-For"]; found {
		refuse(w, http.StatusBadRequest, "forwarded")
		return
	}
	caller, _ := r.Context().Value(contextKey{}).(string)
	document := t.document(caller)
	if document == nil {
		refuse(w, http.StatusNotFound, "unknown caller")
		return
	}
	if wait, _ := strconv.Atoi(query.Get("wait")); wait > 0 {
		document = t.hold(r, document, caller, time.Duration(wait)*time.Second)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("ETag", tag(document))
	_, _ = w.Write(document.body)
}

func tag(document *published) string {
	return `"` + strconv.Itoa(document.incarnation) + `"`
}

// hold returns the next document, or the current one after the timeout.
func (t *twin) hold(r *http.Request, known *published, caller string, wait time.Duration) *published {
	if r.Header.Get("If-None-Match") != tag(known) {
		return known
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-known.changed:
	case <-timer.C:
	case <-r.Context().Done():
	}
	return t.document(caller)
}

// onlyLoopback accepts connections to all of 127.0.0.0/8 with one listener, and no others.
func onlyLoopback(_, _ string, raw syscall.RawConn) error {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.BindToDevice(int(fd), "lo") }); err != nil {
		return err
	}
	return failed
}

func main() {
	body, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	addresses, err := os.ReadFile(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	first := &published{1, body, make(chan struct{})}
	t := &twin{callers: map[string]string{}, documents: map[string]*published{scope: first}}
	for _, address := range strings.Fields(string(addresses)) {
		t.callers[address] = scope
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGUSR1)
	go func() {
		for range changes {
			t.change()
		}
	}()
	listening := net.ListenConfig{Control: onlyLoopback}
	listener, err := listening.Listen(context.Background(), "tcp4", "0.0.0.0:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal((&http.Server{Handler: t, ConnContext: t.name}).Serve(listener))
}
