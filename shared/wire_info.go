package shared

import pb "github.com/sbxhost/sbxhost/shared/enginepb"

func infoToPB(i *Info) *pb.InfoReply {
	return &pb.InfoReply{
		Name:     text(i.Name),
		Version:  text(i.Version),
		Doc:      text(i.Doc),
		Features: translate(i.Features, func(f Feature) string { return text(string(f)) }),
		Options: &pb.OptionSchema{
			Attributes: attributesToPB(i.Options.Attributes),
			Blocks: translate(i.Options.Blocks, func(b OptionBlock) *pb.OptionBlock {
				return &pb.OptionBlock{Name: text(b.Name), Doc: text(b.Doc), Attributes: attributesToPB(b.Attributes)}
			}),
		},
	}
}

func infoFromPB(in *pb.InfoReply) Info {
	return Info{
		Name:     in.GetName(),
		Version:  in.GetVersion(),
		Doc:      in.GetDoc(),
		Features: translate(in.GetFeatures(), func(f string) Feature { return Feature(f) }),
		Options: OptionSchema{
			Attributes: attributesFromPB(in.GetOptions().GetAttributes()),
			Blocks: translate(in.GetOptions().GetBlocks(), func(b *pb.OptionBlock) OptionBlock {
				return OptionBlock{Name: b.GetName(), Doc: b.GetDoc(), Attributes: attributesFromPB(b.GetAttributes())}
			}),
		},
	}
}

func attributesToPB(in []OptionAttribute) []*pb.OptionAttribute {
	return translate(in, func(a OptionAttribute) *pb.OptionAttribute {
		return &pb.OptionAttribute{
			Name:     text(a.Name),
			Type:     text(string(a.Type)),
			Doc:      text(a.Doc),
			Required: a.Required,
			Default:  raw(a.Default),
		}
	})
}

func attributesFromPB(in []*pb.OptionAttribute) []OptionAttribute {
	return translate(in, func(a *pb.OptionAttribute) OptionAttribute {
		return OptionAttribute{
			Name:     a.GetName(),
			Type:     OptionType(a.GetType()),
			Doc:      a.GetDoc(),
			Required: a.GetRequired(),
			Default:  raw(a.GetDefault()),
		}
	})
}

func probeToPB(p *Probe) *pb.ProbeReply {
	return &pb.ProbeReply{
		Ready:    p.Ready,
		Reason:   text(p.Reason),
		Fix:      text(p.Fix),
		Degraded: texts(p.Degraded),
		Facts:    textMap(p.Facts),
		Unusable: p.Unusable,
	}
}

func probeFromPB(in *pb.ProbeReply) Probe {
	p := Probe{
		Ready:    in.GetReady(),
		Reason:   in.GetReason(),
		Fix:      in.GetFix(),
		Degraded: in.GetDegraded(),
		Unusable: in.GetUnusable(),
	}
	if len(in.GetFacts()) > 0 {
		p.Facts = in.GetFacts()
	}
	return p
}
