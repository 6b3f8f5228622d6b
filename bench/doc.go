// Package bench measures the product side by side with its references, in one run on one machine. Its figures are
// ratios: they say what the gateway costs beside the database itself, not how fast the machine is.
package bench
