// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-order-queues))" --verify-diagnostics

exec.program @p threads 1 {
  // expected-error @+1 {{has no offset: plan memory before ordering queues}}
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
}
