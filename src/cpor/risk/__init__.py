"""Risk: an error rate that can be promised, and when the promise no longer applies."""
