module github.com/moldau-log/moldau/test/compat/clients/confluent-kafka-go

go 1.26.0

require github.com/moldau-log/moldau/test/compat v0.0.0

require github.com/confluentinc/confluent-kafka-go/v2 v2.11.1

replace github.com/moldau-log/moldau/test/compat => ../..
