"""What people call things: names for objects, and the object that a request in words means."""
