// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory{limit=100}))" --verify-diagnostics

// expected-error @+1 {{the program needs 128 bytes of device memory per rank, 28 over the limit of 100 bytes: use more ranks, a smaller batch or a higher limit}}
exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
}
