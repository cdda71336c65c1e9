-- Random, and never changed.
INSERT INTO deployment (singleton) VALUES (true) ON CONFLICT (singleton) DO NOTHING;
