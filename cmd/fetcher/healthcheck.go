package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

const healthcheckTimeout = 3 * time.Second

func newHealthcheck() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the local /health, for containers: exit 0 when it answers 200",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if address == "" {
				address = ":4006"
				if v := os.Getenv("SERVER_ADDRESS"); v != "" {
					address = v
				}
			}
			return askHealth(cmd, address, os.Getenv("SERVER_TLS_CERT") != "")
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "host:port to ask (default SERVER_ADDRESS; a worker's is HEALTH_ADDRESS)")
	return cmd
}

func askHealth(cmd *cobra.Command, address string, secure bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usageError{fmt.Errorf("address: %w", err)}
	}
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	client := &http.Client{Timeout: healthcheckTimeout, Transport: &http.Transport{
		// The probe talks to its own process over loopback, under whatever name the certificate has.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // #nosec G402
	}}
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/health", http.NoBody)
	if err != nil {
		return usageError{fmt.Errorf("address: %w", err)}
	}
	resp, err := client.Do(req)
	if err != nil {
		return errors.New("the service does not answer")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the service answers %d", resp.StatusCode)
	}
	return nil
}
