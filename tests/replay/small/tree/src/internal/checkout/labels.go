// Package checkout sells what is in the basket: its labels.
package checkout

import "strings"

// ShowLabels gives all names in one line.
func ShowLabels(names []string) string {
	if len(names) == 0 {
		return "no labels"
	}
	return strings.Join(names, ", ")
}
