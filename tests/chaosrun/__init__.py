"""`bulkhead chaos`: its pure core by cases, and the whole command between real API servers, also when it is killed."""
