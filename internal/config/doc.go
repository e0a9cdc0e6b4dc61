// Package config reads settings from YAML strictly: every key must be known, every value must fit, and all
// faults are reported together, each with its line.
//
// [Decode] fills an ordinary struct by its yaml tags, over the defaults that it already holds. What it
// understands, and nothing more:
//
//   - a struct is a mapping whose keys are the yaml tags; keys that are absent keep their value;
//   - a map with string keys, and a slice, replace what was there; their elements begin as zero, or as [Defaulter]
//     says;
//   - a pointer to a struct stands for a section that may be absent;
//   - a type with UnmarshalText is read from any scalar, a struct with UnmarshalText also from a mapping;
//   - the field tag enum:"a,b" lists the texts that a field, or each of its elements, may have;
//   - the field tag config:"replace" makes a mapping replace the struct instead of merging with it.
//
// [Server] is the settings of the whole server, as flags and as a file.
//
// YAML that hides settings is refused: anchors, aliases, merge keys, tags, several documents, null values.
package config
