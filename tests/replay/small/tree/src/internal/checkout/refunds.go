// Package checkout sells what is in the basket: its refunds.
package checkout

import "strings"

// ShowRefunds gives all names in one line.
func ShowRefunds(names []string) string {
	if len(names) == 0 {
		return "no refunds"
	}
	return strings.Join(names, ", ")
}
