package doctor

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// parseAppArmor has AppArmor's own parser read a profile. The rule userns and the language 4.0
// are younger than the parser of Debian 12: for one that is too old they are left out.
func parseAppArmor(t *testing.T, profile string) {
	t.Helper()
	parser, err := exec.LookPath("apparmor_parser")
	if err != nil {
		parser, err = exec.LookPath("/usr/sbin/apparmor_parser") // not in an ordinary user's PATH
	}
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "apparmor") {
			t.Fatal(err)
		}
		t.Skip("no apparmor_parser here")
	}
	if _, err := os.Stat("/etc/apparmor.d/abi/4.0"); err != nil {
		short := strings.NewReplacer("<abi/4.0>", "<abi/3.0>", "userns,", "").Replace(profile)
		if strings.Contains(short, "userns") || short == profile {
			t.Fatalf("not what is left out of a profile: %s", short)
		}
		profile = short
	}
	parse := exec.Command(parser, "--skip-kernel-load", "--skip-cache")
	parse.Stdin = strings.NewReader(profile)
	if out, err := parse.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", profile, err, out)
	}
}

func TestAppArmorFix(t *testing.T) {
	t.Parallel()
	want := "profile sbxhost /opt/x-1.0/{agent,sbxhost-engine-native} flags=(unconfined) { userns, }"
	got := appArmorFix("/opt/x-1.0/agent", nil)
	if !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
	_, profile, _ := strings.Cut(got, "`")
	profile, _, _ = strings.Cut(profile, "`")
	packaged, err := os.ReadFile("../../../../tools/dist/sbxhost.apparmor")
	if err != nil {
		t.Fatal(err)
	}
	parseAppArmor(t, profile)
	parseAppArmor(t, string(packaged))
	for _, program := range []string{"/home/a b/sbxhost", "/home/{a,b}/sbxhost", "/home/*/sbxhost", "/tmp/\nprofile x { }/sbxhost", "/home/\"/sbxhost"} {
		if got := appArmorFix(program, nil); got != appArmorOff {
			t.Errorf("%q: %q", program, got)
		}
	}
}
