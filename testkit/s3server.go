package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	s3Region    = "us-east-1"
	s3StartTime = time.Minute // how long a server may take to answer, on a machine that is busy
	s3Ports     = 5           // how many ports are tried: a free one may be taken before the server gets to it
)

// s3Server is a running versitygw that keeps its buckets in a directory.
type s3Server struct {
	address        string // host:port, on loopback
	access, secret string

	keeper *exec.Cmd
	life   io.Closer     // the keeper kills the server when it closes
	done   chan struct{} // closed once server and keeper have ended
	log    string        // file with the server's output
}

// keptFile exists in the server's directory while the server runs, for the janitor to wait for.
const keptFile = "s3-running"

// keeperScript runs the program of its arguments until that ends or our end of the pipe closes, by us or by our death.
// Being the program's parent it can't hit another process whose id was reused.
const keeperScript = `
trap '' INT TERM HUP
kept=$1; shift
: >"$kept" || exit
exec 3<&0 </dev/null
"$@" 3<&- & server=$!
(read -r _ <&3; kill -KILL $server) & watcher=$!
wait $server
kill -KILL $watcher
rm -f -- "$kept"
`

// startS3 starts a server in dir with credentials that nobody else knows.
func startS3(dir, binary string) (*s3Server, error) {
	buckets, meta := filepath.Join(dir, "buckets"), filepath.Join(dir, "meta")
	if err := errors.Join(os.Mkdir(buckets, 0o700), os.Mkdir(meta, 0o700)); err != nil {
		return nil, err
	}
	// Metadata goes into files: not every temporary directory has extended attributes.
	backend := []string{"posix", "--sidecar", meta, buckets}
	var err error
	for range s3Ports {
		s := &s3Server{access: rand.Text(), secret: rand.Text(), done: make(chan struct{}), log: filepath.Join(dir, "s3.log")}
		if err = s.launch(dir, binary, backend); err != nil {
			return nil, err
		}
		if err = s.awaitReady(); err == nil {
			return s, nil
		}
		_ = s.life.Close()
		<-s.done
	}
	return nil, err
}

func (s *s3Server) launch(dir, binary string, backend []string) error {
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("choose a port: %w", err)
	}
	s.address = free.Addr().String()
	output, err := os.Create(s.log)
	if err = errors.Join(err, free.Close()); err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	keep := []string{"-c", keeperScript, "sh", filepath.Join(dir, keptFile)}
	server := []string{binary, "--quiet", "--keep-alive", "--region", s3Region, "--port", s.address}
	s.keeper = exec.CommandContext(context.Background(), "/bin/sh", slices.Concat(keep, server, backend)...)
	s.keeper.Dir = "/"
	s.keeper.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "ROOT_ACCESS_KEY_ID=" + s.access, "ROOT_SECRET_ACCESS_KEY=" + s.secret}
	s.keeper.Stdout, s.keeper.Stderr = output, output
	s.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // spared by a Ctrl-C
	if s.life, err = s.keeper.StdinPipe(); err != nil {
		return err
	}
	if err := s.keeper.Start(); err != nil {
		return errors.Join(err, s.life.Close())
	}
	go s.reap()
	return nil
}

func (s *s3Server) reap() {
	_ = s.keeper.Wait() // how a killed server ended says nothing
	close(s.done)
}

// awaitReady polls until the server takes its own credentials: at that port there may be somebody else.
func (s *s3Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), s3StartTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.client().ListBuckets(ctx, &s3.ListBucketsInput{})
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return s.ended()
		case <-ctx.Done():
			return fmt.Errorf("the server doesn't answer: %w", err)
		case <-tick.C:
		}
	}
}

// client speaks to the server with nothing but what is known here: no files, no variables, no connections kept.
func (s *s3Server) client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + s.address),
		UsePathStyle: true,
		Region:       s3Region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.access, SecretAccessKey: s.secret}, nil
		}),
		HTTPClient:       &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		RetryMaxAttempts: 1,
	})
}

// stop kills the server, whose data nobody needs, and waits until it is gone. It is an error if it was gone before.
func (s *s3Server) stop() error {
	var err error
	select {
	case <-s.done:
		err = s.ended()
	default:
	}
	_ = s.life.Close() // fails if the keeper has ended: Wait closes it then
	<-s.done
	return err
}

func (s *s3Server) ended() error {
	output, err := os.ReadFile(s.log)
	return errors.Join(fmt.Errorf("the server ended by itself: %s", output), err)
}
