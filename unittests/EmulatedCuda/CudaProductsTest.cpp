// SPDX-License-Identifier: Apache-2.0
// Which products this machine's cuBLASLt has for its GPU: those of gpt2-124m and bert-base in
// inference, training and generation. It is only asked for algorithms; nothing runs, and all that
// it lacks is told at once.
#include "../../lib/Runtime/device/cuda/BlasProduct.h"
#include "PlainProduct.h"
#include "TestDevice.h"

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime::cuda;
using namespace autopar::testing;

namespace {

constexpr int64_t kWorkspace = int64_t{32} << 20;
/// Tokens of a call: generated, of a sample, of a batch.
constexpr int64_t kRows[] = {1, 32, 512, 1024, 16384, 65536};
constexpr int64_t kWidth = 768, kInner = 3072, kVocabulary = 50264;

class CudaProducts : public ::testing::Test {
protected:
  void SetUp() override {
    auto libraries = CudaLibraries::open(cudaLibraries());
    ASSERT_TRUE(libraries.isOk()) << libraries.status().message();
    auto opened = Gpu::open(*libraries, 0);
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    gpu = opened.take();
    ASSERT_TRUE(gpu->select().isOk());
    auto found = gpu->all().blasLt();
    ASSERT_TRUE(found.isOk()) << found.status().message();
    calls = *found;
    Status created = checkBlas(*calls, calls->create(&handle), "cublasLtCreate");
    ASSERT_TRUE(created.isOk()) << created.message();
  }
  void TearDown() override {
    if (handle)
      calls->destroy(handle);
    std::printf("%d products; of %d the bias is added before\n", asked, apart);
  }

  void expect(const MatmulGeometry &g, const std::string &what) {
    ProductAlignment alignment;
    alignment.biasAt = 0x10000, alignment.gradientAt = 0x20000, alignment.auxAt = 0x30000;
    auto product = BlasProduct::create(*calls, handle, g, alignment, kWorkspace);
    EXPECT_TRUE(product.isOk()) << name(g.aType) << " to " << name(g.cType) << ", "
                                << g.c.dims[g.c.dims.size() - 2] << " x " << g.a.dims.back()
                                << " x " << g.c.dims.back() << ", " << what << ": "
                                << product.status().message();
    ++asked;
    apart += product && (*product)->onesCount() > 0;
  }

  std::shared_ptr<Gpu> gpu;
  const BlasLtCalls *calls = nullptr;
  BlasHandle handle = nullptr;
  int asked = 0, apart = 0;
};

constexpr int64_t kLayers[][2] = {
    {kWidth, 3 * kWidth}, {kWidth, kWidth}, {kWidth, kInner}, {kInner, kWidth}};

TEST_F(CudaProducts, OfLayersForward) {
  for (DataType type : {DataType::F32, DataType::BF16, DataType::F16})
    for (int64_t rows : kRows) {
      for (auto [k, n] : kLayers)
        for (bool hasBias : {false, true})
          for (bool hasResidual : {false, true})
            for (Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::GeluTanh}) {
              MatmulGeometry g = plainProduct(rows, k, n, type);
              g.hasBias = hasBias;
              g.hasResidual = hasResidual;
              g.epilogue = epilogue;
              expect(g, std::string(hasBias ? "bias, " : "") + (hasResidual ? "residual, " : "") +
                            "epilogue " + std::to_string(int(epilogue)));
            }
      // Logits by the table of the tokens, also such as are not padded.
      for (int64_t vocabulary : {kVocabulary, int64_t{50257}}) {
        MatmulGeometry g = plainProduct(rows, kWidth, vocabulary, type);
        g.b.strides = {1, kWidth};
        expect(g, "logits");
      }
    }
}

TEST_F(CudaProducts, OfLayersBackward) {
  for (DataType type : {DataType::F32, DataType::BF16, DataType::F16})
    for (int64_t rows : kRows)
      for (auto [k, n] : {std::pair{kWidth, 3 * kWidth},
                          {kWidth, kWidth},
                          {kWidth, kInner},
                          {kInner, kWidth},
                          {kWidth, kVocabulary}}) {
        MatmulGeometry ofInput = plainProduct(rows, n, k, type);
        ofInput.b.strides = {1, n};
        expect(ofInput, "gradient of an input");
        for (DataType result : {type, DataType::F32}) {
          MatmulGeometry ofWeight = plainProduct(k, rows, n, type);
          ofWeight.a.strides = {1, k};
          ofWeight.cType = result;
          expect(ofWeight, "gradient of a weight");
        }
      }
}

// Both operands lie in rows along what is summed.
TEST_F(CudaProducts, OfEightBits) {
  for (DataType result : {DataType::BF16, DataType::F32})
    for (int64_t rows : kRows)
      for (auto [k, n] :
           {std::pair{kWidth, 3 * kWidth}, {kWidth, kInner}, {kInner, kWidth}, {4096, 14336}}) {
        MatmulGeometry g = plainProduct(rows, k, n, DataType::F8E4M3FN);
        g.b.strides = {1, k};
        g.cType = result;
        expect(g, "scaled");
      }
}

// In half precision, beside more than one row.
TEST_F(CudaProducts, WithEpiloguesOfTraining) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (int64_t rows : {512, 1024, 16384, 65536}) {
      for (bool hasBias : {false, true})
        for (Epilogue epilogue : {Epilogue::GeluTanhAux, Epilogue::ReluAux}) {
          MatmulGeometry g = plainProduct(rows, kWidth, kInner, type);
          g.hasBias = hasBias;
          g.epilogue = epilogue;
          expect(g, "an activation that its gradient reads, " + std::to_string(int(epilogue)));
        }
      for (Epilogue epilogue : {Epilogue::GeluTanhGrad, Epilogue::ReluGrad}) {
        MatmulGeometry g = plainProduct(rows, kWidth, kInner, type);
        g.b.strides = {1, kWidth};
        g.hasResidual = true;
        g.epilogue = epilogue;
        expect(g, "gradient of an activation, " + std::to_string(int(epilogue)));
      }
      for (auto [k, n] : kLayers)
        for (Epilogue epilogue : {Epilogue::SumsOfA, Epilogue::SumsOfB})
          for (DataType result : {type, DataType::F32}) {
            MatmulGeometry g = plainProduct(k, rows, n, type);
            g.a.strides = {1, k};
            g.cType = g.biasType = result;
            g.epilogue = epilogue;
            expect(g, "gradient of a weight with that of a bias, " + std::to_string(int(epilogue)));
          }
    }
}

// Queries, keys and values lie beside each other in each row.
TEST_F(CudaProducts, OfAttention) {
  constexpr int64_t heads = 12, depth = 64, row = 3 * kWidth;
  for (DataType type : {DataType::F32, DataType::BF16, DataType::F16})
    for (int64_t batch : {1, 32})
      for (int64_t queries : {1, 128, 1024})
        for (int64_t keys : {128, 512, 1024}) {
          MatmulGeometry scores;
          scores.aType = scores.bType = scores.cType = type;
          scores.a = {{batch, heads, queries, depth}, {queries * row, depth, row, 1}};
          scores.b = {{batch, heads, depth, keys}, {keys * row, depth, 1, row}};
          scores.c = {{batch, heads, queries, keys},
                      {heads * queries * keys, queries * keys, keys, 1}};
          expect(scores, "scores");
          MatmulGeometry values = scores;
          values.a = scores.c;
          values.b = {{batch, heads, keys, depth}, {keys * row, depth, row, 1}};
          values.c = {{batch, heads, queries, depth}, {queries * kWidth, depth, kWidth, 1}};
          expect(values, "values");
        }
}

} // namespace
