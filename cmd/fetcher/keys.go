package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/fetcherhq/fetcher/config"
	"github.com/fetcherhq/fetcher/rotation"
	"github.com/fetcherhq/fetcher/secret"
	"github.com/fetcherhq/fetcher/store/control"
	"github.com/fetcherhq/fetcher/tenantid"
)

func newKeys() *cobra.Command {
	derive := group("derive", "Derive a tenant's key", newKeyOf("external", "Print the key of results' and events' signatures as one line of hex",
		func(ring *secret.Keyring, tenantID string) (string, error) {
			key, err := ring.ExternalHMACKey(ring.CurrentVersion(), tenantID)
			return hex.EncodeToString(key), err
		}))
	return group("keys", "Generate the master key, or derive what a tenant needs from it",
		&cobra.Command{
			Use: "generate", Short: "Print a new master key for APP_ENC_KEY", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), secret.GenerateKey())
				return err
			},
		},
		derive,
		newKeyOf("identity", "Print the age identity that decrypts a tenant's results",
			func(ring *secret.Keyring, tenantID string) (string, error) {
				identity, err := ring.ResultIdentity(ring.CurrentVersion(), tenantID)
				if err != nil {
					return "", err
				}
				return identity.String(), nil
			}),
		newKeysRotate(),
	)
}

func newKeyOf(use, short string, derive func(*secret.Keyring, string) (string, error)) *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			canonical, ok := tenantid.Canonical(id)
			if !ok {
				return usageError{errors.New("--tenant must be a tenant id")}
			}
			cfg, err := loadConfig(config.RoleKeys)
			if err != nil {
				return err
			}
			ring, err := newKeyring(cfg)
			if err != nil {
				return err
			}
			line, err := derive(ring, canonical)
			if err != nil {
				return fmt.Errorf("deriving the key: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	cmd.Flags().StringVar(&id, "tenant", "", "tenant id (required)")
	return cmd
}

// checkRing refuses keys that are others than their versions had here before: what is sealed would not open, and what is
// sealed from now on would open nowhere else.
func checkRing(ctx context.Context, pool *pgxpool.Pool, keys *secret.Keyring) error {
	ctx, cancel := context.WithTimeout(ctx, missingLimit)
	defer cancel()
	err := rotation.CheckKeys(ctx, control.New(pool), keys)
	wrong, ok := errors.AsType[*rotation.WrongKeyError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return fmt.Errorf("checking the master key: %w", err)
	case wrong.Current:
		return usageError{fmt.Errorf("APP_ENC_KEY: %w; give that one, or give this one a higher APP_ENC_KEY_VERSION", wrong)}
	default:
		return usageError{fmt.Errorf("APP_ENC_KEYS_RETIRED: %w", wrong)}
	}
}

func newKeyring(cfg *config.Config) (*secret.Keyring, error) {
	current, err := secret.ParseKey(cfg.Keys.CurrentVersion, cfg.Keys.Current.Reveal())
	if err != nil {
		return nil, fmt.Errorf("APP_ENC_KEY: %w", err)
	}
	var retired []secret.Key
	for _, entry := range config.RetiredKeys(cfg.Keys.Retired) {
		key, failure := secret.ParseKey(entry.Version, entry.Key.Reveal())
		if failure != nil {
			return nil, fmt.Errorf("APP_ENC_KEYS_RETIRED: %w", failure)
		}
		retired = append(retired, key)
	}
	ring, err := secret.NewKeyring(current, retired...)
	if err != nil {
		return nil, fmt.Errorf("making the key ring: %w", err)
	}
	return ring, nil
}
