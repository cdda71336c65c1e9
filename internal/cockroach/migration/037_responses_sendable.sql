-- Retries of a final claim read an answer, never nothing: see claim.ErrNoResponse.
-- Rows of before are not looked at; a new one that breaks this fails its settle.
ALTER TABLE responses
{{- if .Cockroach }} ADD CONSTRAINT IF NOT EXISTS responses_sendable
{{- else }} DROP CONSTRAINT IF EXISTS responses_sendable, ADD CONSTRAINT responses_sendable
{{- end }} CHECK (status BETWEEN 200 AND 599) NOT VALID;
