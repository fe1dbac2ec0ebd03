// Package templateset keeps the template packages that the manager renders with: those that are built in, with a site's files
// from a directory laid over them, and a site's own packages. It follows the directory. A set is taken only as a whole, and
// only if it is good; until then the last good one stays, and the [Problem] says where and why.
package templateset
