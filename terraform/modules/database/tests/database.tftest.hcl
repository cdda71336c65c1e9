mock_provider "cockroach" {}

run "existing_needs_no_cloud" {
  variables {
    existing_url = "postgresql://db.example:26257/homeward?sslmode=verify-full"
  }
  assert {
    condition     = length(cockroach_cluster.this) == 0 && output.url_templates.existing == "postgresql://USER:PASSWORD@db.example:26257/homeward?sslmode=verify-full"
    error_message = "The module changes nothing of an existing database."
  }
}

run "existing_with_a_standby" {
  variables {
    existing_url = "postgresql://a.example:5432,b.example:5432/homeward?sslmode=verify-full&target_session_attrs=read-write"
  }
  assert {
    condition     = output.url_templates.existing == "postgresql://USER:PASSWORD@a.example:5432,b.example:5432/homeward?sslmode=verify-full&target_session_attrs=read-write"
    error_message = "All hosts are in the URL, and the driver chooses the one that takes writes."
  }
}

run "refuses_passwords" {
  command = plan
  variables {
    existing_url = "postgresql://till:secret@db.example:26257/homeward?sslmode=verify-full"
  }
  expect_failures = [var.existing_url]
}

run "refuses_unverified" {
  command = plan
  variables {
    existing_url = "postgresql://db.example:26257/homeward?sslmode=require"
  }
  expect_failures = [var.existing_url]
}

run "refuses_two_regions" {
  command = plan
  variables {
    regions = { us-east-1 = {}, eu-west-1 = {} }
  }
  expect_failures = [var.regions]
}

run "three_regions" {
  command = plan
  variables {
    regions = { us-east-1 = {}, eu-west-1 = {}, ap-northeast-1 = {} }
  }
  assert {
    condition     = cockroach_cluster.this[0].delete_protection && cockroach_cluster.this[0].plan == "ADVANCED" && length(cockroach_cluster.this[0].regions) == 3
    error_message = "A cluster of three regions, protected from deletion."
  }
}
