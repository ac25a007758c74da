#include "gateway/translation/amount_text.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace ebb::gateway;

TEST_CASE("amounts: GPUs are read exactly, in thousandths, or not at all") {
  struct Row {
    const char* text;
    std::optional<std::int64_t> milli;
  };
  const Row rows[] = {{"8", 8'000},     {"0.5", 500},  {"0.125", 125},
                      {"1.500", 1'500}, {"0", 0},      {"1000000", kGpuMilliMax},
                      {"1000001", {}},  {"1.5.0", {}}, {"-1", {}},
                      {"+1", {}},       {"NaN", {}},   {"inf", {}},
                      {"1e3", {}},      {"", {}},      {".", {}},
                      {".5", {}},       {"5.", {}},    {"0.0001", {}},
                      {" 8", {}},       {"8 ", {}},    {"9223372036854775808", {}},
                      {"0x10", {}}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(milli_of_text(row.text, kGpuMilliMax) == row.milli);
  }
}

TEST_CASE("amounts: cores and memory are read with their units") {
  CHECK(cpu_milli_of_text("500m") == 500);
  CHECK(cpu_milli_of_text("64") == 64'000);
  CHECK(cpu_milli_of_text("0.5m") == std::nullopt);
  CHECK(bytes_of_text("64Gi") == 68'719'476'736);
  CHECK(bytes_of_text("1.5Gi") == 1'610'612'736);
  CHECK(bytes_of_text("512") == 512);
  CHECK(bytes_of_text("1G") == 1'000'000'000);
  CHECK(bytes_of_text("1.5") == std::nullopt);
  CHECK(bytes_of_text("Gi") == std::nullopt);
  CHECK(bytes_of_text("99999Pi") == std::nullopt);
}

TEST_CASE("amounts: what is written is read back as the same amount") {
  CHECK(text_of_milli(500) == "0.5");
  CHECK(text_of_milli(-1'250) == "-1.25");
  CHECK(text_of_bytes(68'719'476'736) == "64Gi");
  CHECK(text_of_bytes(1'000) == "1000");
  rc::check("GPUs", [] {
    const auto milli = *rc::gen::inRange<std::int64_t>(0, kGpuMilliMax);
    RC_ASSERT(milli_of_text(text_of_milli(milli), kGpuMilliMax) == milli);
  });
  rc::check("memory", [] {
    const auto bytes = *rc::gen::inRange<std::int64_t>(0, kMemoryBytesMax);
    RC_ASSERT(bytes_of_text(text_of_bytes(bytes)) == bytes);
  });
}
