mock_provider "aws" {}

variables {
  master_password = "not-a-password-but-long-enough"
  primary         = { aws_region = "us-east-1", vpc_id = "vpc-a", nodes_security_group_id = "sg-a", subnet_ids = ["s1", "s2"] }
  standby         = { aws_region = "us-west-2", vpc_id = "vpc-b", nodes_security_group_id = "sg-b", subnet_ids = ["s3", "s4"] }
}

run "two_regions" {
  command = plan
  assert {
    condition     = aws_rds_cluster.primary.storage_encrypted && alltrue([for i in concat(aws_rds_cluster_instance.primary, aws_rds_cluster_instance.standby) : !i.publicly_accessible]) && length(aws_rds_cluster_instance.standby) == 2
    error_message = "Servers in both regions, sealed on disk and not public."
  }
}

run "refuses_a_standby_in_the_same_region" {
  command = plan
  variables {
    standby = { aws_region = "us-east-1", vpc_id = "vpc-b", nodes_security_group_id = "sg-b", subnet_ids = ["s3"] }
  }
  expect_failures = [var.standby]
}
