package group

import "github.com/moldau-log/moldau/cluster"

// Topics is an immutable snapshot of the topics of the cluster. *cluster.Image is one.
type Topics interface {
	Topic(id cluster.TopicID) (*cluster.Topic, bool)
	TopicByName(name string) (*cluster.Topic, bool)
}
