// Becomes a program of a plane once the plane's API server answers, or has not for two minutes.
//
// A kube-controller-manager that does not elect a leader ends ten seconds after its start if its API server is not healthy by
// then, and no flag gives it longer. Containers of a pod start side by side, so on a slow machine it ended and was restarted,
// with growing pauses, while its API server was still on its way.
//
//	kubelet ──> /usr/local/bin/NAME: asks /healthz, prctl, execve ──> /usr/local/libexec/NAME, same process, same arguments
//
// Until then it is a few MiB, and nothing of it is left afterwards. It uses the standard library alone.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Tests set other ones by the linker.
var (
	health = "https://127.0.0.1:6443/healthz"
	folder = "/usr/local/libexec"
	// The program's startup probe ends after three minutes, and it needs some of them itself.
	longest = "120s"
)

const (
	pause         = 100 * time.Millisecond
	answer        = 5 * time.Second
	setTimerSlack = 29        // PR_SET_TIMERSLACK
	slackNs       = 5_000_000 // as workstation/hostcluster/images/slack.py
)

func main() {
	// The thread with the slack has to be the one that becomes the program.
	runtime.LockOSThread()
	limit, err := time.ParseDuration(longest)
	if err != nil {
		fail(err)
	}
	began := time.Now()
	healthy := wait(began.Add(limit))
	fmt.Fprintf(os.Stderr, "startafter: the API server is healthy: %t, after %.1f s\n", healthy, time.Since(began).Seconds())
	// Without the slack the program wakes more often, and is right all the same.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, slackNs, 0)
	program := filepath.Join(folder, filepath.Base(os.Args[0]))
	fail(fmt.Errorf("%s: %w", program, syscall.Exec(program, os.Args, os.Environ())))
}

func wait(until time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	client := &http.Client{
		Timeout: answer,
		// At loopback of its own pod. Nothing is sent, and nothing but the status is believed: with a wrong one the program
		// starts too early or too late, and judges its API server by its CA then.
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for ctx.Err() == nil {
		if healthy(ctx, client) {
			return true
		}
		time.Sleep(pause)
	}
	return false
}

func healthy(ctx context.Context, client *http.Client) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
	if err != nil {
		fail(err)
	}
	got, err := client.Do(request)
	if err != nil {
		return false
	}
	defer got.Body.Close()
	// So that the connection is used again.
	_, _ = io.CopyN(io.Discard, got.Body, 1<<16)
	return got.StatusCode == http.StatusOK
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "startafter:", err)
	os.Exit(127)
}
