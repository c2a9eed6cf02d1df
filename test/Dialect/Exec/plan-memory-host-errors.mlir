// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory{host-limit=100}))" --verify-diagnostics

// expected-error @+1 {{the program needs 128 bytes of host memory per rank, 28 over the 100 that the host has for one device: use more ranks, or offload=none}}
exec.program @p threads 1 {
  %x = exec.buffer "x" pinned_host bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" pinned_host bytes 64 : tensor<16xf32>
  exec.port state "x" %x : tensor<16xf32>
  exec.port state "y" %y : tensor<16xf32>
}
