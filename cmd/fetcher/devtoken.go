package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/embedded"
)

func newDevToken() *cobra.Command {
	var (
		dataDir, authTime string
		request           embedded.TokenRequest
	)
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Mint a token of the running development identity service",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if request.Tenant == "" {
				return usageError{errors.New("--tenant is required")}
			}
			at, err := parseAuthTime(authTime, time.Now())
			if err != nil {
				return usageError{err}
			}
			request.AuthTime = at
			issuer, err := embedded.OpenIssuer(layout(dataDir).identity())
			if err != nil {
				return fmt.Errorf("opening the identity service of %s: %w", dataDir, err)
			}
			token, err := issuer.Mint(request)
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	f := cmd.Flags()
	addDataDir(f, &dataDir)
	f.StringVar(&request.Tenant, "tenant", "", "tenant id the token names (required)")
	f.StringVar(&request.Role, "role", embedded.RoleAdmin, "admin, operator, viewer or machine")
	f.StringSliceVar(&request.Permissions, "permissions", nil, "claim permissions, comma separated")
	f.StringVar(&request.Type, "type", "", "claim type (default normal-user, for machine application)")
	f.StringVar(&authTime, "auth-time", "", "when the person signed in: RFC 3339, Unix seconds, or a duration ago such as -20m")
	f.DurationVar(&request.TTL, "ttl", 0, "how long it is valid; negative: expired (default 24h)")
	return cmd
}

// parseAuthTime accepts an instant, Unix seconds, or a signed duration from now. Nothing gives the zero time.
func parseAuthTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(seconds, 0), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, errors.New("--auth-time must be RFC 3339, Unix seconds, or a duration such as -20m")
	}
	return at, nil
}
