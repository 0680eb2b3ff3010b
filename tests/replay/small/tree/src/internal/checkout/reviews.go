// Package checkout sells what is in the basket: its reviews.
package checkout

import "strings"

// ShowReviews gives all names in one line.
func ShowReviews(names []string) string {
	if len(names) == 0 {
		return "no reviews"
	}
	return strings.Join(names, ", ")
}
