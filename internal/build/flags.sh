#!/bin/sh
# Prints the GOFLAGS of builds for others: images, releases, and the tests in Docker.
#   sh internal/build/flags.sh [cloud]
# Without an argument: as small as possible, see docs/design/providers.md. gRPC, of which
# only the export of traces is used, has no debug pages, and the largest libraries and packages
# that no charge passes through are not inlined.
# cloud: with the drivers for buckets and keys of AWS, Google Cloud, Azure and Vault.
set -eu
tags=grpcnotrace
case "${1:-}" in
"" | homeward) ;;
cloud | homeward-cloud) tags=$tags,aws,gcp,azure,hashivault ;;
*)
	echo "flags.sh: there is no variant $1; say cloud or nothing" >&2
	exit 2
	;;
esac
printf '%s' "-trimpath -buildvcs=false -tags=$tags"
for p in github.com/stripe/stripe-go google.golang.org/grpc github.com/hashicorp github.com/miekg github.com/nats-io gocloud.dev \
	github.com/alecthomas github.com/gogo github.com/prometheus go.opentelemetry.io/otel/exporters go.yaml.in \
	github.com/cockroachdb/errors github.com/cockroachdb/redact github.com/go-jose github.com/go-viper github.com/pressly \
	$(printf 'github.com/homeward-io/homeward/%s ' audit internal/cli internal/console internal/drill internal/inspect internal/lab internal/operator \
		internal/reconcile internal/restore internal/runs internal/telemetry payment/psp/simulator payment/psp/testmode payment/recon payment/verify region/admin); do
	printf ' %s' "-gcflags=$p/...=-l"
done
echo
