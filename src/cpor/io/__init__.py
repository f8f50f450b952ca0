"""Files: scenes, frames and images, strict JSON, whole writes, resumable work in several processes."""
