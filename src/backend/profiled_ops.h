#pragma once

#include "backend/ops.h"
#include "backend/step_profile.h"

namespace yeoul {

// Runs every operation on `inner` and writes what it cost into a profile. Same results, no
// allocation; two looks at the clock an operation. Everything is borrowed.
class ProfiledOps final : public Ops {
 public:
  ProfiledOps(Ops& inner, StepProfile& profile, const Clock& clock)
      : inner_(inner), profile_(profile), clock_(clock) {}

  const char* numerics_id() const override { return inner_.numerics_id(); }
  void embed(const EmbedArgs& args) override;
  void mixes(const MixesArgs& args) override;
  void collapse(const CollapseArgs& args) override;
  void expand(const ExpandArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void linear(const LinearArgs& args) override;
  void rope_table(const RopeTableArgs& args) override;
  void rope(const RopeArgs& args) override;
  void stage_window(const StageWindowArgs& args) override;
  void compress_pairs(const CompressPairsArgs& args) override;
  void store_compressed(const StoreCompressedArgs& args) override;
  void index_select(const IndexSelectArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void route(const RouteArgs& args) override;
  void expert(const ExpertArgs& args) override;
  void combine(const CombineArgs& args) override;
  void engram_decode(const EngramDecodeArgs& args) override;
  void engram_inject(const EngramInjectArgs& args) override;

 private:
  // Bytes and operations of a call, known before it or, where a selection decides, after it.
  struct Work {
    double bytes = 0;
    double operations = 0;
  };
  template <typename Args>
  void timed(OpKind op, void (Ops::*call)(const Args&), const Args& args, Work work);

  Ops& inner_;
  StepProfile& profile_;
  const Clock& clock_;
};

}  // namespace yeoul
