// RUN: autopar-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(autopar-insert-reshards,autopar-partition),autopar-evaluate-step{cluster=presets:h100x4})' | FileCheck %s

// One rank sends each of two ranks its half: 13.4 us of a kernel, 5 us of latency and, at 370 GB/s,
// twice 11.3 us for both halves, 7.1 us of a kernel.
// CHECK: autopar.step_us = 48.19{{[0-9]*}} : f64
autopar.mesh @m0 ["x" = 1]
autopar.mesh @m1 ["x" = 2] devices [1, 2]
func.func @main(%x: tensor<2048x1024xf32> {autopar.name = "x"},
                %w: tensor<2048x1024xf32> {autopar.donated, autopar.name = "w", autopar.stage = 0 : i64}) -> (tensor<2048x1024xf32> {autopar.name = "y"})
    attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<2048x1024xf32>
  %there = autopar.transfer %f to 1 {autopar.id = "f/to.1", autopar.strategy = #autopar.strategy<@m1, [{"x"}, {}]>} : tensor<2048x1024xf32>
  %g = autopar.unary exp %there {autopar.id = "g", autopar.strategy = #autopar.strategy<@m1, [{"x"}, {}]>} : tensor<2048x1024xf32>
  return %g : tensor<2048x1024xf32>
}

// -----

// A value that goes to two stages, each on a rank of its own: its messages share the link of the
// rank that has it. A row of 8.7 us, the bytes of both messages of either micro-batch 22.7 us, the
// second behind the first, 5 us of latency, a row of 7.1 us and 8.7 us to put the results together.
// CHECK: autopar.mesh_us = array<f64: 17.39{{[0-9]*}}, 14.26{{[0-9]*}}, 14.26{{[0-9]*}}>, autopar.step_us = 74.86{{[0-9]*}} : f64
autopar.mesh @m0 ["x" = 1] devices [0]
autopar.mesh @m1 ["x" = 1] devices [1]
autopar.mesh @m2 ["x" = 1] devices [2]
func.func @main(%all: tensor<2x1048576xf32>, %w: tensor<1048576xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64}) -> (tensor<2x1048576xf32>, tensor<2x1048576xf32>)
    attributes {autopar.schedule = "gpipe", autopar.stage_meshes = 3 : i64} {
  %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x1048576xf32> -> tensor<1048576xf32>
  %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<1048576xf32>
  %to1 = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<1048576xf32>
  %g = autopar.unary exp %to1 {autopar.id = "g"} : tensor<1048576xf32>
  %to2 = autopar.transfer %f to 2 {autopar.id = "f/to.2"} : tensor<1048576xf32>
  %h = autopar.unary exp %to2 {autopar.id = "h"} : tensor<1048576xf32>
  %gs = autopar.stack_micro_batches %g : tensor<1048576xf32> -> tensor<2x1048576xf32>
  %hs = autopar.stack_micro_batches %h : tensor<1048576xf32> -> tensor<2x1048576xf32>
  return %gs, %hs : tensor<2x1048576xf32>, tensor<2x1048576xf32>
}
