package main

import "strings"

// place is the processors of the server and of the client.
type place struct {
	name           string
	server, client []int
}

const sharedPlace = "shared"

// placesOn returns the placements that so many processors allow.
func placesOn(cpus []int) []place {
	var all []place
	if len(cpus) >= 2 {
		all = append(all, place{"1-core", cpus[:1], cpus[1:]})
	}
	if len(cpus) >= 4 {
		all = append(all, place{"2-cores", cpus[:2], cpus[2:]})
	}
	return append(all, place{sharedPlace, cpus, cpus})
}

func namesOf(places []place) string {
	var names []string
	for _, p := range places {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
