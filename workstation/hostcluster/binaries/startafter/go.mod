module bulkhead.dev/binaries/startafter

go 1.26.0
