"""etcd's protocol."""
