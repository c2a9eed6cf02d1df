// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory))" | FileCheck %s --check-prefix=FREE
// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory{limit=8512}))" | FileCheck %s --check-prefix=TIGHT
// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory{limit=8500 refuse=false}))" | FileCheck %s --check-prefix=TIGHT

// Not waiting for a message is worth 64 bytes more, unless they are over the limit: a program that
// fits is never placed so that it does not, also where the caller only asks what it needs.

// FREE: exec.program @p arena [8576, 0, 0]
// TIGHT: exec.program @p arena [8512, 0, 0]
exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 8192 : tensor<2048xf32>
  %sent = exec.buffer "sent" device bytes 192 : tensor<48xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%large) extent 1 {us = 128.0 : f64}
    exec.launch @k(%x) -> (%sent) extent 1 {us = 128.0 : f64}
    exec.send %sent to 0 bytes 192 queue send {us = 6144.0 : f64}
    exec.launch @k(%large) -> (%next) extent 1 {us = 128.0 : f64}
    exec.launch @k(%next, %large) -> (%y) extent 1 {us = 128.0 : f64}
  }
}
