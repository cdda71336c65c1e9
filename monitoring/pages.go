package monitoring

// region filters by the variable of that name.
const region = `homeward_region=~"$homeward_region"`

var regionVariable = Variable{Label: "homeward_region", Metric: "homeward_requests_in_hand"}

// quantiles returns p50, p99 and p999 of a histogram.
func quantiles(metric, filter string) []Query {
	var all []Query
	for _, q := range []struct{ name, value string }{{"p50", "0.5"}, {"p99", "0.99"}, {"p999", "0.999"}} {
		all = append(all, Query{"histogram_quantile(" + q.value + ", sum by (le) (rate(" + metric + "_bucket{" + filter + "}[5m])))", q.name})
	}
	return all
}

// by returns a rate, summed by a label.
func by(label, metric, filter string) []Query {
	return []Query{{"sum by (" + label + ") (rate(" + metric + "{" + filter + "}[5m]))", "{{" + label + "}}"}}
}

// most returns the largest value of a gauge by a label: nodes of one region report the same.
func most(label, metric, filter string) []Query {
	return []Query{{"max by (" + label + ") (" + metric + "{" + filter + "})", "{{" + label + "}}"}}
}

// Dashboards returns all pages.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), oneRegion(), oneTenant(), money(), store()}
}

func overview() Dashboard {
	return Dashboard{
		Name: "overview", Title: "overview", Description: "All regions: are the objectives met, and does anything wait?",
		Variables: []Variable{regionVariable},
		Rows: []Row{
			{"Objectives", []Panel{
				{Title: "Requests", Unit: "reqps", Single: true, Queries: []Query{{"sum(rate(homeward_requests_total{" + region + "}[5m]))", ""}}},
				{Title: "Refused", Help: "The share of requests that Homeward refused without a durable claim, or failed; the objective is at most 0.05 %.", Unit: "percentunit", Single: true, Bad: true, Queries: []Query{{"max(homeward:requests_errors:ratio_rate5m{" + region + "})", ""}}},
				{Title: "Homeward's own time, p99", Help: "The objective is 15 ms.", Unit: "s", Single: true, Queries: []Query{{"max(homeward:layer:p99_5m{" + region + "})", ""}}},
				{Title: "Regions lost", Unit: "short", Single: true, Bad: true, Queries: []Query{{"sum(max by (homeward_peer) (homeward_region_lost))", ""}}},
				{Title: "In limbo", Unit: "short", Single: true, Bad: true, Queries: []Query{{"sum(max by (homeward_home) (homeward_limbo))", ""}}},
				{Title: "Parked rows", Unit: "short", Single: true, Bad: true, Queries: []Query{{"sum(max by (homeward_home, homeward_queue, homeward_kind) (homeward_outbox_parked))", ""}}},
			}},
			{"Traffic", []Panel{
				{Title: "Requests by region", Unit: "reqps", Queries: by("homeward_region", "homeward_requests_total", region)},
				{Title: "By outcome", Unit: "reqps", Queries: by("homeward_outcome", "homeward_requests_total", region)},
				{Title: "By path", Help: "local, registrar, replica, forward or deputy.", Unit: "reqps", Queries: by("homeward_path", "homeward_requests_total", region)},
			}},
			{"Time", []Panel{
				{Title: "Requests", Unit: "s", Queries: quantiles("http_server_request_duration_seconds", region)},
				{Title: "Homeward's own", Unit: "s", Bound: 0.015, Queries: quantiles("homeward_layer_duration_seconds", region)},
				{Title: "The provider's", Unit: "s", Queries: quantiles("homeward_provider_duration_seconds", region)},
			}},
			{"Claims", []Panel{
				{Title: "Decisions", Unit: "reqps", Queries: by("homeward_decision", "homeward_claims_total", region)},
				{Title: "Conflicts and replays", Unit: "percentunit", Queries: []Query{{"homeward:claim_conflicts:ratio_rate5m{" + region + "}", "conflicts {{homeward_region}}"}, {"homeward:claim_replays:ratio_rate5m{" + region + "}", "replays {{homeward_region}}"}}},
				{Title: "Unknown outcomes", Unit: "short", Queries: most("homeward_home", "homeward_claim_unknown_open", region)},
			}},
		},
	}
}

func oneRegion() Dashboard {
	return Dashboard{
		Name: "region", Title: "a region", Description: "One region: its nodes, its connections to the others, its queues.",
		Variables: []Variable{{Label: "homeward_region", Metric: "homeward_requests_in_hand", One: true}},
		Rows: []Row{
			{"Nodes", []Panel{
				{Title: "Live nodes, as it sees them", Unit: "short", Queries: most("homeward_peer", "homeward_region_nodes", region)},
				{Title: "Versions", Unit: "short", Queries: most("homeward_version", "homeward_version_nodes", region)},
				{Title: "Requests in progress", Unit: "short", Queries: []Query{{"sum by (homeward_by) (homeward_requests_in_hand{" + region + "})", "{{homeward_by}}"}}},
			}},
			{"Other regions", []Panel{
				{Title: "Round trip", Unit: "s", Queries: most("homeward_peer", "homeward_region_rtt_seconds", region)},
				{Title: "Forwards", Unit: "reqps", Queries: by("homeward_home, homeward_outcome", "homeward_forward_duration_seconds_count", region)},
				{Title: "Forwards, p99", Unit: "s", Queries: []Query{{"histogram_quantile(0.99, sum by (le, homeward_home) (rate(homeward_forward_duration_seconds_bucket{" + region + "}[5m])))", "{{homeward_home}}"}}},
			}},
			{"Its view", []Panel{
				{Title: "Silent nodes", Help: "Nodes that gossip sees and that do not answer its calls.", Unit: "short", Queries: most("homeward_peer", "homeward_region_silent", region)},
				{Title: "Circuit", Help: "Not closed: it acts on the region's rows itself, at once.", Unit: "short", Queries: most("homeward_peer, homeward_state", "homeward_region_circuit", region)},
				{Title: "Lost", Help: "1 while it acts as the region's deputy.", Unit: "short", Queries: most("homeward_peer", "homeward_region_lost", region)},
				{Title: "Age of the table of regions", Unit: "s", Queries: most("homeward_node", "homeward_topology_age_seconds", region)},
				{Title: "Clock against the database's", Unit: "s", Queries: []Query{{"max by (homeward_node) (abs(homeward_clock_offset_seconds{" + region + "}))", "{{homeward_node}}"}}},
			}},
			{"Queues", []Panel{
				{Title: "Lag", Unit: "s", Queries: most("homeward_queue, homeward_kind", "homeward_outbox_lag_seconds", region)},
				{Title: "Waiting", Unit: "short", Queries: most("homeward_queue", "homeward_outbox_pending", region)},
				{Title: "Work", Unit: "reqps", Queries: by("homeward_kind, homeward_outcome", "homeward_outbox_handle_duration_seconds_count", region)},
			}},
		},
	}
}

func oneTenant() Dashboard {
	const tenant = region + `,homeward_tenant=~"$homeward_tenant"`
	return Dashboard{
		Name: "tenant", Title: "a tenant", Description: "Merchants: those with the most traffic by name, all others as “other”.",
		Variables: []Variable{regionVariable, {Label: "homeward_tenant", Metric: "homeward_tenant_requests_total"}},
		Rows: []Row{
			{"Traffic", []Panel{
				{Title: "Requests by tenant", Unit: "reqps", Queries: by("homeward_tenant", "homeward_tenant_requests_total", tenant)},
				{Title: "By outcome", Unit: "reqps", Queries: by("homeward_outcome", "homeward_tenant_requests_total", tenant)},
			}},
			{"Keys", []Panel{
				{Title: "Keys reused for another request", Help: "More than 10 a minute is an alert.", Unit: "reqps", Bound: 10. / 60, Queries: by("homeward_tenant", "homeward_claim_mismatches_total", tenant)},
				{Title: "Rivals", Help: "Arrivals that met a rival with their key; of all tenants.", Unit: "reqps", Queries: by("homeward_outcome", "homeward_claim_conflicts_total", region)},
				{Title: "Wait for a rival", Unit: "s", Queries: quantiles("homeward_claim_wait_duration_seconds", region)},
			}},
		},
	}
}

func money() Dashboard {
	const provider = `homeward_provider=~"$homeward_provider"`
	return Dashboard{
		Name: "money", Title: "money", Description: "Providers, unknown outcomes, ghosts and their compensation, and the books.",
		Variables: []Variable{{Label: "homeward_provider", Metric: "homeward_provider_duration_seconds_count"}},
		Rows: []Row{
			{"Now", []Panel{
				{Title: "In limbo", Unit: "short", Single: true, Bad: true, Queries: []Query{{"sum(max by (homeward_home) (homeward_limbo))", ""}}},
				{Title: "Refunds stopped", Unit: "short", Single: true, Bad: true, Queries: []Query{{"max(homeward_brake_held)", ""}}},
				{Title: "Faults in the books", Unit: "short", Single: true, Bad: true, Queries: []Query{{"max(homeward_ledger_verify_findings)", ""}}},
				{Title: "Since the books were verified", Unit: "s", Single: true, Queries: []Query{{"time() - max(homeward_ledger_verify_last_seconds)", ""}}},
				{Title: "Mismatches with the statement", Unit: "short", Single: true, Bad: true, Queries: []Query{{`max by (homeward_provider) (homeward_reconciliation_mismatches{homeward_class="all",` + provider + `})`, "{{homeward_provider}}"}}},
			}},
			{"Providers", []Panel{
				{Title: "Calls", Unit: "reqps", Queries: by("homeward_call, homeward_outcome", "homeward_provider_duration_seconds_count", provider)},
				{Title: "Time", Unit: "s", Queries: quantiles("homeward_provider_duration_seconds", provider)},
				{Title: "Circuit", Unit: "short", Queries: most("homeward_provider, homeward_state", "homeward_provider_circuit", provider)},
			}},
			{"Unknown outcomes", []Panel{
				{Title: "Open", Unit: "short", Queries: most("homeward_home", "homeward_claim_unknown_open", "")},
				{Title: "Age of the oldest", Unit: "s", Queries: most("homeward_home", "homeward_claim_unknown_age_seconds", "")},
				{Title: "Stuck", Help: "In flight, and no node works on them.", Unit: "short", Queries: most("homeward_home", "homeward_claim_stuck", "")},
			}},
			{"Ghosts", []Panel{
				{Title: "Booked", Unit: "reqps", Queries: by("homeward_provider", "homeward_ghosts_total", provider)},
				{Title: "Compensations", Unit: "reqps", Queries: by("homeward_provider, homeward_state", "homeward_compensations_total", provider)},
				{Title: "Time to compensate", Unit: "s", Queries: quantiles("homeward_compensation_duration_seconds", provider)},
				{Title: "Suspense", Help: "In minor units of each currency.", Unit: "short", Queries: most("homeward_currency", "homeward_suspense", "")},
			}},
			{"Webhooks in", []Panel{
				{Title: "By verdict", Unit: "reqps", Queries: by("homeward_provider, homeward_verdict", "homeward_notices_total", provider)},
				{Title: "Processed", Unit: "reqps", Queries: by("homeward_state", "homeward_notices_closed_total", provider)},
			}},
		},
	}
}

func store() Dashboard {
	return Dashboard{
		Name: "store", Title: "store", Description: "The database as the nodes see it, and the embedded store.",
		Variables: []Variable{regionVariable},
		Rows: []Row{
			{"Statements", []Panel{
				{Title: "By name", Unit: "reqps", Queries: by("db_operation_name", "db_client_operation_duration_seconds_count", region)},
				{Title: "p99 by name", Unit: "s", Queries: []Query{{"histogram_quantile(0.99, sum by (le, db_operation_name) (rate(db_client_operation_duration_seconds_bucket{" + region + "}[5m])))", "{{db_operation_name}}"}}},
				{Title: "Retries", Unit: "reqps", Queries: by("db_operation_name", "homeward_db_retries_total", region)},
			}},
			{"Connections", []Panel{
				{Title: "In use", Unit: "short", Queries: []Query{{"sum by (db_client_connection_pool_name, db_client_connection_state) (db_client_connection_count{" + region + "})", "{{db_client_connection_pool_name}} {{db_client_connection_state}}"}}},
				{Title: "Waits", Unit: "reqps", Queries: by("db_client_connection_pool_name", "homeward_pool_waits_total", region)},
				{Title: "Calls to the database", Unit: "short", Queries: []Query{{"sum by (db_client_connection_pool_name) (homeward_pool_calls{" + region + "})", "{{db_client_connection_pool_name}}"}}},
				{Title: "Steps in a statement, p50", Unit: "short", Queries: []Query{{"histogram_quantile(0.5, sum by (le, db_operation_name) (rate(homeward_batch_size_bucket{" + region + "}[5m])))", "{{db_operation_name}}"}}},
			}},
			{"Embedded store", []Panel{
				{Title: "Time of a sync", Unit: "s", Queries: []Query{{"sum(rate(homeward_embedded_sync_time_seconds_total{" + region + "}[5m])) / (sum(rate(homeward_embedded_syncs_total{" + region + "}[5m])) > 0)", "mean"}}},
				{Title: "Compactions", Unit: "reqps", Queries: by("homeward_node", "homeward_embedded_compactions_total", region)},
				{Title: "On disk", Unit: "bytes", Queries: most("homeward_node", "homeward_embedded_disk_usage_bytes", region)},
			}},
			{"Audit", []Panel{
				{Title: "Lag of the export", Unit: "s", Queries: most("homeward_home", "homeward_audit_export_lag_seconds", region)},
				{Title: "Segments", Unit: "reqps", Queries: by("homeward_region", "homeward_audit_segments_total", region)},
				{Title: "Age of the rows' figures", Unit: "s", Queries: most("homeward_region", "homeward_store_figures_age_seconds", region)},
			}},
		},
	}
}
