package access

import "fmt"

// Check decides on a call of a method about a model; "": the call names none. The error is a *DeniedError, or a
// *HiddenError where the caller may not know whether there is such a model. A call that names no model needs the
// permission on any model: what it then shows is for the method to narrow.
func (i *Identity) Check(r *Rule, model string) error {
	var granted Permissions
	switch {
	case r.Public:
		return nil
	case r.Whole:
		// A permission on each model that there is would not do: others may come.
		granted, model = i.grants.everywhere, "*"
	case model == "":
		granted = i.grants.somewhere
	default:
		if granted = i.grants.on(model); granted == 0 {
			return &HiddenError{Model: model}
		}
	}
	if granted&r.AnyOf != 0 {
		return nil
	}
	return &DeniedError{Identity: i.Name, Lacks: r.AnyOf, Model: model, Method: r.Method}
}

// DeniedError says that an identity lacks a permission.
type DeniedError struct {
	Identity string
	// Lacks are the permissions; any one of them would do.
	Lacks Permissions
	// Model is what they would be needed on: a model, "*" for all, or "" for any.
	Model string
	// Method is the full name of the method, such as /weft.v1.ModelService/GetModel.
	Method string
}

func (e *DeniedError) Error() string {
	if e.Lacks == 0 {
		return fmt.Sprintf("nobody may call %s: it has no access rule", e.Method)
	}
	on := "model " + e.Model
	switch e.Model {
	case "":
		on = "any model"
	case "*":
		on = `all models ("*")`
	}
	return fmt.Sprintf("identity %s lacks permission %v on %s; add it to one of its roles in the access file",
		e.Identity, e.Lacks, on)
}

// HiddenError says that a caller may not know whether there is a model. Callers get the error of one that does not
// exist in its place.
type HiddenError struct{ Model string }

func (e *HiddenError) Error() string {
	return fmt.Sprintf("none of the permissions predict, observe and operate is granted on model %q", e.Model)
}
