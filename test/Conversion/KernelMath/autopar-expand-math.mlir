// RUN: autopar-opt %s --autopar-expand-math --split-input-file | FileCheck %s

// Softmax's exp: with afn and ninf one clamp, one rounding trick, a polynomial of degree 5 and one scale.
// CHECK-LABEL: @exp_approximate
// CHECK-NOT: math.exp
// CHECK: arith.cmpf ogt
// CHECK: arith.select
// CHECK-NOT: arith.cmpf
// CHECK-COUNT-3: math.fma
// CHECK: arith.shli
// CHECK-COUNT-5: math.fma
// CHECK-NOT: math.fma
// CHECK: arith.mulf
// CHECK-NEXT: return
func.func @exp_approximate(%x: f32) -> f32 {
  %y = math.exp %x fastmath<afn,ninf> : f32
  return %y : f32
}

// -----

// The general form scales in two steps, so that denormals and overflow come out right.
// CHECK-LABEL: @exp_general
// CHECK-COUNT-2: arith.select
// CHECK: arith.shrsi
// CHECK-COUNT-2: arith.mulf
// CHECK-NEXT: return
func.func @exp_general(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}

// -----

// f16 is computed in f32.
// CHECK-LABEL: @tanh_f16
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.divf %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @tanh_f16(%x: f16) -> f16 {
  %y = math.tanh %x : f16
  return %y : f16
}

// -----

// Vectors work too.
// CHECK-LABEL: @erf_vector
// CHECK-NOT: math.erf
// CHECK: arith.divf %{{.*}} : vector<8xf64>
func.func @erf_vector(%x: vector<8xf64>) -> vector<8xf64> {
  %y = math.erf %x : vector<8xf64>
  return %y : vector<8xf64>
}

// -----

// Small constant exponents need neither exp nor log.
// CHECK-LABEL: @square_and_root
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[X:.*]], %[[X]] : f32
// CHECK: %[[ROOT:.*]] = math.sqrt
// CHECK: return %[[SQUARE]], %[[ROOT]]
func.func @square_and_root(%x: f32) -> (f32, f32) {
  %two = arith.constant 2.0 : f32
  %half = arith.constant 0.5 : f32
  %a = math.powf %x, %two : f32
  %b = math.powf %x, %half : f32
  return %a, %b : f32, f32
}

// -----

// What has an instruction stays.
// CHECK-LABEL: @native
// CHECK: math.sqrt
// CHECK: math.floor
// CHECK: math.fma
func.func @native(%x: f32) -> f32 {
  %a = math.sqrt %x : f32
  %b = math.floor %a : f32
  %c = math.fma %a, %b, %x : f32
  return %c : f32
}

// -----

// The sign is set after narrowing: a copysign that is rounded from f64 to f16 would be a library call.
// CHECK-LABEL: @remainder_f16
// CHECK: arith.divf %{{.*}} : f64
// CHECK-NOT: math.copysign
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: math.copysign %{{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func @remainder_f16(%x: f16, %y: f16) -> f16 {
  %r = arith.remf %x, %y : f16
  return %r : f16
}
