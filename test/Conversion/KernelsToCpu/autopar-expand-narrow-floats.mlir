// RUN: autopar-opt %s --autopar-expand-narrow-floats --split-input-file | FileCheck %s

// One rounding per op, by integer arithmetic: no runtime function is needed.
// CHECK-LABEL: @add
// CHECK-NOT: arith.extf
// CHECK: arith.extui %{{.*}} : i16 to i32
// CHECK: arith.addf %{{.*}} : f32
// CHECK-NOT: arith.truncf
// CHECK: arith.trunci %{{.*}} : i32 to i16
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
func.func @add(%x: bf16, %y: bf16) -> bf16 {
  %z = arith.addf %x, %y : bf16
  return %z : bf16
}

// -----

// f64 goes through f32 rounded to odd, so that the two roundings act like one.
// CHECK-LABEL: @from_f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.ori
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @from_f64(%x: f64) -> f16 {
  %y = arith.truncf %x : f64 to f16
  return %y : f16
}

// -----

// f16 and f32 convert natively.
// CHECK-LABEL: @native
// CHECK-NEXT: arith.extf
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: return
func.func @native(%x: f16) -> f16 {
  %y = arith.extf %x : f16 to f32
  %z = arith.truncf %y : f32 to f16
  return %z : f16
}
