// Package deploy tries what deploys Homeward: the Helm chart, on a real Kubernetes
// control plane with machines that are made up, and what its pods would run, as
// processes.
//
// The tools are built by make deploy-check and found on PATH. No container runs here:
// kwok plays machines and kubelets, so pods get ready without running.
// [TestWhatPodsRun] starts their commands, files and environment instead.
package deploy
