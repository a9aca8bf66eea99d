"""What ordinary runs teach: samples, detectors of drift, and what another plan would change."""
