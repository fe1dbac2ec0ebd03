package controller

// Engine is what a view renders by.
func (v *View) Engine() *Engine { return v.k.Engine }
