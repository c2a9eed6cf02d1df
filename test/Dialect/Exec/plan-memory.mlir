// RUN: autopar-opt %s --pass-pipeline="builtin.module(exec.program(autopar-plan-memory))" | FileCheck %s

// Buffers that are never live together share bytes; what load leaves for step does not, and lies
// below all else; ports live through the whole step.

// CHECK: exec.program @p arena [320, 0, 0]
// CHECK: "x" device bytes 64 at 64
// CHECK: "a" device bytes 64 at 128
// CHECK: "b" device bytes 64 at 192
// CHECK: "c" device bytes 64 at 128
// CHECK: "read" device bytes 128 at 64
// CHECK: "w" device bytes 64 at 0
// CHECK: "y" device bytes 64 at 256
// CHECK-NOT: "unused"
exec.program @p threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %a = exec.buffer "a" device bytes 64 : tensor<16xf32>
  %b = exec.buffer "b" device bytes 64 : tensor<16xf32>
  %c = exec.buffer "c" device bytes 64 : tensor<16xf32>
  %read = exec.buffer "read" device bytes 128 : tensor<32xf32>
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  %unused = exec.buffer "unused" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.port parameter "w" : tensor<32xf32>
  exec.entry @load {
    exec.read "w" -> %read
    exec.launch @k(%read) -> (%w) extent 1
  }
  exec.entry @step {
    exec.launch @k(%x, %w) -> (%a) extent 1
    exec.launch @k(%a) -> (%b) extent 1
    exec.launch @k(%b) -> (%c) extent 1
    exec.launch @k(%c, %w) -> (%y) extent 1
  }
}

// A product that adds to an operand which nobody needs afterwards writes over it ("sum" over "kept");
// an operand that is also multiplied ("sum" itself), or is needed later, keeps its bytes.

// CHECK: exec.program @in_place arena [1024, 0, 0]
// CHECK: "kept" device bytes 256 at [[KEPT:[0-9]+]]
// CHECK: "sum" device bytes 256 at [[KEPT]]
// CHECK-NOT: "next" device bytes 256 at [[KEPT]]
// CHECK: "next" device bytes 256 at
exec.program @in_place threads 1 {
  %x = exec.buffer "x" device bytes 256 : tensor<8x8xf32>
  %kept = exec.buffer "kept" device bytes 256 : tensor<8x8xf32>
  %sum = exec.buffer "sum" device bytes 256 : tensor<8x8xf32>
  %next = exec.buffer "next" device bytes 256 : tensor<8x8xf32>
  %y = exec.buffer "y" device bytes 256 : tensor<8x8xf32>
  exec.port input "x" %x : tensor<8x8xf32>
  exec.port output "y" %y : tensor<8x8xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%kept) extent 1
    exec.matmul %x, %x -> %sum residual %kept <a = <f32 [8, 8] strides [8, 1]>, b = <f32 [8, 8] strides [8, 1]>, c = <f32 [8, 8] strides [8, 1]>, residual = true>
    exec.matmul %sum, %x -> %next residual %sum <a = <f32 [8, 8] strides [8, 1]>, b = <f32 [8, 8] strides [8, 1]>, c = <f32 [8, 8] strides [8, 1]>, residual = true>
    exec.matmul %next, %x -> %y residual %x <a = <f32 [8, 8] strides [8, 1]>, b = <f32 [8, 8] strides [8, 1]>, c = <f32 [8, 8] strides [8, 1]>, residual = true>
  }
}

// Who gets the bytes of a message waits for it: while a message is under way its bytes are left
// alone ("next" has others), but only where that takes no memory ("tight" has the same).

// CHECK: exec.program @messages arena [448, 0, 0]
// CHECK: "sent" device bytes 64 at [[SENT:[0-9]+]]
// CHECK-NOT: "next" device bytes 64 at [[SENT]] :
// CHECK: "next" device bytes 64 at
exec.program @messages threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %sent = exec.buffer "sent" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %last = exec.buffer "last" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 256 : tensor<64xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%sent) extent 1 {us = 128.0 : f64}
    exec.send %sent to 0 bytes 64 queue send {us = 2048.0 : f64}
    exec.launch @k(%x) -> (%next) extent 1 {us = 4096.0 : f64}
    exec.launch @k(%next) -> (%last) extent 1 {us = 128.0 : f64}
    exec.launch @k(%last) -> (%large) extent 1 {us = 320.0 : f64}
    exec.launch @k(%large) -> (%y) extent 1 {us = 320.0 : f64}
  }
}

// It may take four times as long as it is thought to: it is left alone while kernels compute that long.
// CHECK: exec.program @slow arena [448, 0, 0]
// CHECK: "sent" device bytes 64 at [[SENT:[0-9]+]]
// CHECK-NOT: "next" device bytes 64 at [[SENT]] :
// CHECK: "next" device bytes 64 at
exec.program @slow threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 256 : tensor<64xf32>
  %sent = exec.buffer "sent" device bytes 64 : tensor<16xf32>
  %between = exec.buffer "between" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%large) extent 1 {us = 320.0 : f64}
    exec.launch @k(%large) -> (%sent) extent 1 {us = 320.0 : f64}
    exec.send %sent to 0 bytes 64 queue send {us = 2048.0 : f64}
    exec.launch @k(%x) -> (%between) extent 1 {us = 4096.0 : f64}
    exec.launch @k(%between) -> (%next) extent 1 {us = 128.0 : f64}
    exec.launch @k(%next) -> (%y) extent 1 {us = 128.0 : f64}
  }
}

// Where that takes memory, half of what it is thought to take at the least.
// CHECK: exec.program @fast arena [448, 0, 0]
// CHECK: "sent" device bytes 64 at [[SENT:[0-9]+]]
// CHECK-NOT: "between" device bytes 64 at [[SENT]] :
// CHECK: "large" device bytes 256 at [[SENT]] :
exec.program @fast threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %sent = exec.buffer "sent" device bytes 64 : tensor<16xf32>
  %between = exec.buffer "between" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 256 : tensor<64xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%sent) extent 1 {us = 128.0 : f64}
    exec.send %sent to 0 bytes 64 queue send {us = 2048.0 : f64}
    exec.launch @k(%x) -> (%between) extent 1 {us = 4096.0 : f64}
    exec.launch @k(%between) -> (%next) extent 1 {us = 128.0 : f64}
    exec.launch @k(%next) -> (%large) extent 1 {us = 320.0 : f64}
    exec.launch @k(%large, %next) -> (%y) extent 1 {us = 384.0 : f64}
  }
}

// Messages to another peer go beside it: a long one does not make it last until the end, where it would take memory.
// CHECK: exec.program @peers arena
// CHECK: "sent" device bytes 65536 at [[SENT:[0-9]+]]
// CHECK-NOT: "between" device bytes 64 at [[SENT]] :
// CHECK: "large" device bytes 65536 at [[SENT]] :
exec.program @peers threads 1 {
  %x = exec.buffer "x" device bytes 2097152 : tensor<524288xf32>
  %sent = exec.buffer "sent" device bytes 65536 : tensor<16384xf32>
  %between = exec.buffer "between" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 65536 : tensor<16384xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<524288xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.send %x to 1 bytes 2097152 queue send {us = 67108864.0 : f64}
    exec.launch @k(%x) -> (%sent) extent 1 {us = 131072.0 : f64}
    exec.send %sent to 0 bytes 65536 queue send {us = 2097152.0 : f64}
    exec.launch @k(%x) -> (%between) extent 1 {us = 16777216.0 : f64}
    exec.launch @k(%between) -> (%next) extent 1 {us = 128.0 : f64}
    exec.launch @k(%next) -> (%large) extent 1 {us = 65600.0 : f64}
    exec.launch @k(%large) -> (%y) extent 1 {us = 65600.0 : f64}
  }
}

// A small one is left alone until the end: its receiver may be late.
// CHECK: exec.program @small arena
// CHECK: "sent" device bytes 64 at [[SENT:[0-9]+]]
// CHECK-NOT: "next" device bytes 64 at [[SENT]] :
// CHECK: "next" device bytes 64 at
exec.program @small threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 8388608 : tensor<2097152xf32>
  %again = exec.buffer "again" device bytes 8388608 : tensor<2097152xf32>
  %sent = exec.buffer "sent" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%large) extent 1 {us = 8388672.0 : f64}
    exec.launch @k(%large) -> (%sent) extent 1 {us = 8388672.0 : f64}
    exec.send %sent to 0 bytes 64 queue send {us = 2048.0 : f64}
    exec.launch @k(%x) -> (%again) extent 1 {us = 8388672.0 : f64}
    exec.launch @k(%again) -> (%next) extent 1 {us = 8388672.0 : f64}
    exec.launch @k(%next) -> (%y) extent 1 {us = 128.0 : f64}
  }
}

// CHECK: exec.program @tight arena [192, 0, 0]
// CHECK: "sent" device bytes 64 at [[SENT:[0-9]+]]
// CHECK: "next" device bytes 64 at [[SENT]] :
exec.program @tight threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %sent = exec.buffer "sent" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%sent) extent 1 {us = 128.0 : f64}
    exec.send %sent to 0 bytes 64 queue send {us = 2048.0 : f64}
    exec.launch @k(%x) -> (%next) extent 1 {us = 128.0 : f64}
    exec.launch @k(%next) -> (%y) extent 1 {us = 128.0 : f64}
  }
}

// A collective reads its bytes like a message: "next" does not wait for it.
// CHECK: exec.program @collective arena [448, 0, 0]
// CHECK: "part" device bytes 64 at [[PART:[0-9]+]]
// CHECK-NOT: "next" device bytes 64 at [[PART]] :
// CHECK: "next" device bytes 64 at
exec.program @collective threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %part = exec.buffer "part" device bytes 64 : tensor<16xf32>
  %next = exec.buffer "next" device bytes 64 : tensor<16xf32>
  %large = exec.buffer "large" device bytes 256 : tensor<64xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.entry @step {
    exec.launch @k(%x) -> (%part) extent 1 {us = 128.0 : f64}
    exec.collective all_reduce %part -> %y group 0 count 16 : f32 queue communication {us = 2048.0 : f64}
    exec.launch @k(%x) -> (%next) extent 1 {us = 128.0 : f64}
    exec.launch @k(%next) -> (%large) extent 1 {us = 4096.0 : f64}
    exec.launch @k(%large, %y) -> (%y) extent 1 {us = 320.0 : f64}
  }
}

// Where that takes more memory, as what is read for it would need room of its own, it has any place.

// CHECK: exec.program @large_read arena [320, 0, 0]
// CHECK: "read" device bytes 256 at 0
// CHECK: "v" device bytes 128 at 0
exec.program @large_read threads 1 {
  %x = exec.buffer "x" device bytes 64 : tensor<16xf32>
  %read = exec.buffer "read" device bytes 256 : tensor<64xf32>
  %w = exec.buffer "w" device bytes 64 : tensor<16xf32>
  %v = exec.buffer "v" device bytes 128 : tensor<32xf32>
  %y = exec.buffer "y" device bytes 64 : tensor<16xf32>
  exec.port input "x" %x : tensor<16xf32>
  exec.port output "y" %y : tensor<16xf32>
  exec.port parameter "w" : tensor<64xf32>
  exec.entry @load {
    exec.read "w" -> %read
    exec.launch @k(%read) -> (%w) extent 1
    exec.launch @k(%w) -> (%v) extent 1
  }
  exec.entry @step {
    exec.launch @k(%x, %w, %v) -> (%y) extent 1
  }
}
