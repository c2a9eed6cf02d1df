// RUN: autopar-opt %s --autopar-to-exec=target=cuda --autopar-plan-memory | sed s/autopar.grid/other.grid/ | not autopar-translate --exec-to-artifact /dev/stdin -o %t.bin 2>&1 | FileCheck %s

// CHECK: expected the attribute autopar.grid = array<i64: blocks, threads, shared bytes> of a kernel for CUDA
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> (tensor<8xf32> {autopar.name = "y"}) {
  %0 = autopar.unary exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
