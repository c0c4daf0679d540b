#include "engine/speed_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace yeoul {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr MachineRates kRates{.read_bytes_per_s = 40e9,
                              .products_per_s = 400e9,
                              .disk_bytes_per_s = 1e9,
                              .disk_reads_per_s = 5e4};

const Checkpoint& tiny() {
  static const auto checkpoint = Checkpoint::open("models/tiny-random");
  EXPECT_TRUE(checkpoint.has_value());
  return **checkpoint;
}

MemoryPlan plan_of(int32_t step_tokens = 512) {
  const Result<MemoryPlan> plan = plan_memory(
      tiny(), {.memory_bytes = 600 * kMiB, .parallel = 1, .step_tokens_max = step_tokens});
  EXPECT_TRUE(plan.has_value());
  MemoryPlan all_rows_in_the_file = plan.value_or(MemoryPlan{});
  all_rows_in_the_file.weights.engram.num_cached = 0;
  all_rows_in_the_file.weights.engram.scales_resident = false;
  return all_rows_in_the_file;
}

const WeightGroup& group(const SpeedForecast& forecast, const std::string& name) {
  return *std::find_if(forecast.groups.begin(), forecast.groups.end(),
                       [&](const WeightGroup& g) { return g.name == name; });
}

TEST(SpeedForecast, every_stored_byte_is_in_one_group) {
  const SpeedForecast forecast = forecast_speed(tiny(), plan_of(), 100);
  int64_t stored = 0;
  for (const WeightGroup& g : forecast.groups) stored += g.stored_bytes;
  EXPECT_EQ(stored, static_cast<int64_t>(tiny().totals().num_bytes));
  const auto owned = [&](const char* owner) {
    return static_cast<int64_t>(tiny().totals().bytes_by_owner.at(owner));
  };
  EXPECT_EQ(group(forecast, "draft stages").stored_bytes, owned("dspark"));
  EXPECT_EQ(group(forecast, "vision").stored_bytes, owned("vision"));
  EXPECT_EQ(group(forecast, "Engram tables").stored_bytes, owned("engram_tables"));
  EXPECT_EQ(group(forecast, "Engram projections").stored_bytes, owned("engram_resident"));
}

TEST(SpeedForecast, a_token_reads_dense_weights_once_and_its_share_of_the_experts) {
  const ModelConfig& c = tiny().config();
  const SpeedForecast forecast = forecast_speed(tiny(), plan_of(), 100);
  const WeightGroup& attention = group(forecast, "attention");
  EXPECT_EQ(attention.token_bytes, static_cast<double>(attention.stored_bytes));
  const WeightGroup& routed = group(forecast, "routed experts");
  EXPECT_DOUBLE_EQ(routed.token_bytes, static_cast<double>(routed.stored_bytes) *
                                           c.num_experts_per_tok / c.n_routed_experts);
  EXPECT_EQ(group(forecast, "embedding").token_bytes, 2.0 * c.hidden_size);
  EXPECT_EQ(group(forecast, "draft stages").token_bytes, 0);
  EXPECT_EQ(forecast.resident_experts, 1);
  EXPECT_EQ(forecast.decode.disk_bytes, 0);
  // Two reads (codes, scales) for each column of each Engram layer.
  EXPECT_NEAR(forecast.decode.disk_reads,
              2.0 * static_cast<double>(c.engram_layer_ids.size()) * (c.engram_max_ngram_size - 1) *
                  c.engram_n_heads,
              1e-9);
}

TEST(SpeedForecast, experts_without_room_come_from_the_disk) {
  MemoryPlan plan = plan_of();
  const ModelConfig& c = tiny().config();
  plan.weights.experts.num_slots = (c.num_hidden_layers * c.n_routed_experts +
                                    c.num_nextn_predict_layers * c.dspark_n_routed_experts) /
                                   4;
  const SpeedForecast whole = forecast_speed(tiny(), plan_of(), 100);
  const SpeedForecast forecast = forecast_speed(tiny(), plan, 100);
  EXPECT_NEAR(forecast.resident_experts, 0.25, 0.01);
  EXPECT_NEAR(forecast.decode.disk_bytes,
              group(forecast, "routed experts").token_bytes * (1 - forecast.resident_experts), 1);
  EXPECT_GT(forecast.prefill.disk_bytes, forecast.decode.disk_bytes);
  EXPECT_EQ(forecast.decode.memory_bytes, whole.decode.memory_bytes);
  const MachineRates slow_disk{40e9, 400e9, 1e6, 1e9};
  EXPECT_EQ(time_of(forecast.decode, slow_disk).limit(), SpeedLimit::kDisk);
  EXPECT_NE(to_string(forecast, slow_disk).find("limited by the disk"), std::string::npos);
}

TEST(SpeedForecast, scales_and_rows_in_memory_and_rows_read_once_a_step_save_reads) {
  const SpeedForecast none = forecast_speed(tiny(), plan_of(), 100);
  EXPECT_LT(none.prefill.disk_reads, 100 * none.decode.disk_reads) << "equal rows are read once";
  MemoryPlan plan = plan_of();
  plan.weights.engram.scales_resident = true;
  EXPECT_NEAR(forecast_speed(tiny(), plan, 100).decode.disk_reads, none.decode.disk_reads / 2,
              1e-9);
  plan.weights.engram.num_cached = 1 << 30;
  EXPECT_EQ(forecast_speed(tiny(), plan, 100).decode.disk_reads, 0);
}

TEST(SpeedForecast, a_prompt_of_one_token_costs_what_that_token_costs) {
  const SpeedForecast forecast = forecast_speed(tiny(), plan_of(), 1);
  EXPECT_EQ(forecast.position, 0);
  EXPECT_NEAR(forecast.prefill.operations, forecast.decode.operations, 1);
  EXPECT_NEAR(forecast.prefill.disk_reads, forecast.decode.disk_reads, 1e-9);
  // Engram rows are in the decode's bytes only.
  EXPECT_NEAR(forecast.prefill.memory_bytes,
              forecast.decode.memory_bytes - group(forecast, "Engram tables").token_bytes, 1);
}

TEST(SpeedForecast, long_prompts_share_weights_and_leave_the_decoder_early) {
  const SpeedForecast one = forecast_speed(tiny(), plan_of(), 1);
  const SpeedForecast many = forecast_speed(tiny(), plan_of(), 4096);
  const SpeedForecast small_steps = forecast_speed(tiny(), plan_of(64), 4096);
  EXPECT_EQ(many.step_tokens, 512);
  EXPECT_LT(many.prefill.memory_bytes, 4096 * one.prefill.memory_bytes / 50);
  EXPECT_LT(many.prefill.memory_bytes, small_steps.prefill.memory_bytes / 3);
  EXPECT_NEAR(many.prefill.operations, small_steps.prefill.operations,
              many.prefill.operations / 100);
  // Without the cone every row would pass all layers, as the last one does.
  EXPECT_LT(many.prefill.operations, 0.8 * 4096 * many.decode.operations);
}

TEST(SpeedForecast, the_longest_term_is_the_limit) {
  const Workload work{
      .memory_bytes = 80e9, .operations = 400e9, .disk_bytes = 1e9, .disk_reads = 5e4};
  const WorkTime time = time_of(work, kRates);
  EXPECT_DOUBLE_EQ(time.memory_s, 2);
  EXPECT_DOUBLE_EQ(time.compute_s, 1);
  EXPECT_DOUBLE_EQ(time.disk_s, 2);
  EXPECT_DOUBLE_EQ(time.seconds(), 4);
  EXPECT_EQ(time.limit(), SpeedLimit::kDisk);
  EXPECT_EQ((WorkTime{3, 1, 2}).limit(), SpeedLimit::kMemory);
  EXPECT_EQ((WorkTime{3, 4, 2}).limit(), SpeedLimit::kCompute);
  EXPECT_EQ(time_of({}, {}).seconds(), 0) << "nothing to do takes no time at any rate";
}

TEST(SpeedForecast, the_text_repeats_its_numbers) {
  const std::string text = to_string(forecast_speed(tiny(), plan_of(), 64), kRates);
  for (const char* part : {"routed experts", "keys and values", "40.0 GB/s", "400 GFLOP/s",
                           "position 63", "a prompt of 64 tokens in steps of 512", "limited by"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace yeoul
