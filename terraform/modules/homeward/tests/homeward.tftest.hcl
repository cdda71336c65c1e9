mock_provider "helm" {}

variables {
  release = {
    region     = "us-east-1"
    aws_region = "us-east-1"
    namespace  = "homeward"
    node_ports = { api = 30081, gossip = 30946 }
    secrets    = { for s in ["database", "database-owner", "gossip", "provider", "provider-webhook", "audit", "ca"] : s => "homeward/us-east-1/${s}" }
    shared     = { buckets_region = "us-west-2", bodies_bucket = "b", audit_bucket = "a", bucket_key_arn = "k", seal_key_arn = "s" }
    seal_url   = "awskms://alias/homeward-seal"
  }
  peers  = { eu-west-1 = { gossip = ["gossip.eu.example:7946"], cidrs = ["10.20.0.0/16"] } }
  image  = { repository = "ghcr.io/homeward-io/homeward", digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000" }
  config = { provider = { kind = "stripe", name = "stripe" } }
}

run "release" {
  variables {
    migration = { enabled = true, regions = ["us-east-1=1", "eu-west-1=2"] }
  }
  assert {
    condition     = helm_release.homeward.atomic && yamldecode(helm_release.homeward.values[0]).peers["eu-west-1"].gossip[0] == "gossip.eu.example:7946"
    error_message = "The release has its peers, and rolls back a change that does not get ready."
  }
  assert {
    condition     = yamldecode(helm_release.secrets.values[0]).secrets["homeward-database"] == "homeward/us-east-1/database" && contains(keys(yamldecode(helm_release.secrets.values[0]).secrets), "homeward-database-owner")
    error_message = "Kubernetes Secrets have the names of the region's secrets."
  }
}

run "buckets" {
  variables {
    provider_secrets = { HOMEWARD_AUDIT_KEYS = "audit" }
    config           = { provider = { kind = "stripe", name = "stripe" }, claim = { inline_body = 4096 } }
  }
  assert {
    condition     = yamldecode(helm_release.homeward.values[0]).config == { objects = "s3://b?region=us-west-2", audit = { bucket = "s3://a?region=us-west-2" }, claim = { inline_body = 4096 }, provider = { kind = "stripe", name = "stripe" } }
    error_message = "The settings name the buckets of bodies and segments, beside other settings."
  }
}

run "no_buckets" {
  command = plan
  variables {
    bodies = false
  }
  assert {
    condition     = yamldecode(helm_release.homeward.values[0]).config == { provider = { kind = "stripe", name = "stripe" } }
    error_message = "The settings name no bucket unless a variable sets one."
  }
}

run "refuses_nobody_who_moves_the_money" {
  command = plan
  variables {
    config = { claim = { inline_body = 4096 } }
  }
  expect_failures = [var.config]
}

run "takes_several_who_move_it" {
  command = plan
  variables {
    config = { providers = { stripe-eu = { kind = "stripe" } }, default_provider = "stripe-eu" }
  }
}

run "refuses_itself_as_peer" {
  command = plan
  variables {
    peers = { us-east-1 = { gossip = ["x:7946"], cidrs = [] } }
  }
  expect_failures = [var.peers]
}

run "refuses_a_tag" {
  command = plan
  variables {
    image = { repository = "ghcr.io/homeward-io/homeward", digest = "latest" }
  }
  expect_failures = [var.image]
}
