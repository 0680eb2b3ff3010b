// Package checkout sells what is in the basket: its returns.
package checkout

import "strings"

// ShowReturns gives all names in one line.
func ShowReturns(names []string) string {
	if len(names) == 0 {
		return "no returns"
	}
	return strings.Join(names, ", ")
}
