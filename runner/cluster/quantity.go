package cluster

import "strconv"

// quantity writes bytes the way Kubernetes does: with the largest binary unit that they are a multiple of.
func quantity(bytes int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	unit := 0
	for bytes != 0 && bytes%1024 == 0 && unit < len(units)-1 {
		bytes /= 1024
		unit++
	}
	return strconv.FormatInt(bytes, 10) + units[unit]
}
