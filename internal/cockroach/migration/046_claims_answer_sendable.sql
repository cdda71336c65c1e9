-- As responses_sendable: a final claim has an answer, never nothing. settle gives a
-- status to each claim that it ends for good.
ALTER TABLE claims
{{- if .Cockroach }} ADD CONSTRAINT IF NOT EXISTS claims_answer_sendable
{{- else }} DROP CONSTRAINT IF EXISTS claims_answer_sendable, ADD CONSTRAINT claims_answer_sendable
{{- end }} CHECK (answer_status BETWEEN 200 AND 599) NOT VALID;
