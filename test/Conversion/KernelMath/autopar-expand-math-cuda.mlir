// RUN: autopar-opt %s --autopar-expand-math=cuda --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-math=cuda --split-input-file | autopar-opt --split-input-file > %t

// Softmax's exp on an NVIDIA GPU: one clamp, an instruction for 2^h, and what h is off made good.
// CHECK-LABEL: @exp_approximate
// CHECK: arith.cmpf ogt
// CHECK: arith.select
// CHECK-NOT: arith.cmpf
// CHECK: arith.mulf
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK-COUNT-2: math.fma
// CHECK-NEXT: return
func.func @exp_approximate(%x: f32) -> f32 {
  %y = math.exp %x fastmath<afn,ninf> : f32
  return %y : f32
}

// -----

// The general form has no clamp: what a multiplication may do for nothing keeps the exponent in its range.
// CHECK-LABEL: @exp(
// CHECK-NOT: arith.cmpf
// CHECK: math.fma
// CHECK-NEXT: llvm.call_intrinsic "llvm.nvvm.saturate.f"
// CHECK-COUNT-3: math.fma
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK-NOT: arith.cmpf
// CHECK: arith.shli
// CHECK: arith.mulf
// CHECK-NEXT: return
func.func @exp(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}

// -----

// CHECK-LABEL: @tanh
// CHECK-NOT: arith.divf
// CHECK: nvvm.rcp.approx.ftz.f
// CHECK-NEXT: arith.mulf
// CHECK-NOT: arith.divf
// CHECK: return
func.func @tanh(%x: f32) -> f32 {
  %y = math.tanh %x : f32
  return %y : f32
}

// -----

// There is no instruction for f64.
// CHECK-LABEL: @tanh_f64
// CHECK: arith.divf %{{.*}} : f64
func.func @tanh_f64(%x: f64) -> f64 {
  %y = math.tanh %x : f64
  return %y : f64
}
